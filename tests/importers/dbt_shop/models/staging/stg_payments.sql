select
    id as payment_id,
    order_id,
    payment_method,
    /* the seed has cents;
       the marts have the currency's unit */
    {{ to_units('amount') }} as amount
from {{ ref('raw_payments') }}
