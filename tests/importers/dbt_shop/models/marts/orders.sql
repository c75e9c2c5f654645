{{ config(materialized='incremental', unique_key='order_id') }}

{% set payment_methods = ['credit_card', 'coupon', 'bank_transfer', 'gift_card'] -%}

with stg_payments as (
    -- only what was paid
    select * from {{ ref('stg_payments') }} where amount is not null
),

orders as (
    select * from {{ ref('stg_orders') }}
),

by_method as (
    select
        order_id
        {% for method in payment_methods -%}
        , sum(case when payment_method = '{{ method }}' then amount else 0 end) as {{ method }}_amount
        {% endfor %}
    from stg_payments
    group by order_id
)

select
    orders.order_id,
    orders.customer_id,
    orders.order_date,
    orders.status,
    {% for method in payment_methods -%}
    by_method.{{ method }}_amount,
    {% endfor -%}
    totals.total_amount as amount
from orders
left join by_method on orders.order_id = by_method.order_id
left join {{ ref('order_payments') }} as totals on orders.order_id = totals.order_id
{% if is_incremental() %}
where orders.order_date > (select max(order_date) from {{ this }})
{% endif %}
