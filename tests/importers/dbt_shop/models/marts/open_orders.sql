{{ config(materialized='view') }}

select order_id, customer_id, status
from {{ ref('orders') }}
where status in ('placed', 'shipped')
