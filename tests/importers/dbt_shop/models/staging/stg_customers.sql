with source as (

    -- the seed stands in for the table of the shop's system
    select * from {{ ref('raw_customers') }}

)

select
    id as customer_id,
    first_name,
    last_name  -- one letter and a dot
from source
